"""Run the schema versions on the connection that `apod.campaign.schema` hands over."""

from alembic import context

from apod.campaign.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # SQLite's are, as long as nobody commits in between: Alembic assumes otherwise
)
with context.begin_transaction():
    context.run_migrations()
