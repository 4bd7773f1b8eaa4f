"""The annotation page and the dashboard of a campaign, over HTTP. `docs/serve.md` says how to run it.

`create_app(campaign)` is the application; `serve` runs it. Needs the extra `[serve]`.
"""
