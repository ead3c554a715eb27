"""The state store: goals, attempts, outcomes, leases, cleanup intents. The only importer of SQLAlchemy."""
