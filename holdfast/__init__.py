"""Holdfast: a data-integration engine on Apache Spark that never loses its place."""

__version__ = "0.1.0"
