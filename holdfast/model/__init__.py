"""What things are: frozen data, enums, schemas, errors. Imports nothing else of ours."""
