"""Schema versions, applied by `apod.campaign.upgrade`."""
