"""Evidence for an auditor: one folder from a run, a campaign or an audit, which a stranger can verify."""
