"""Schema versions, applied by `apod.campaign.schema`."""
