"""The comparison of the paper: methods, baselines, a resumable runner, figures."""
