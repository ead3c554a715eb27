"""Shipped for connector authors: model systems, the contract suite, crash machinery, builders. May import all."""
