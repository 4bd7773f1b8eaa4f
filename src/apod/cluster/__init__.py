"""Pools on a cluster of machines, through Ray: parts that live in actors, and a lost one built again from storage."""

from apod.cluster.connect import connect, connected
from apod.cluster.engine import joblib_backend, machines, ray_engine
from apod.cluster.inside import Inside
from apod.cluster.pool import ClusterPool

__all__ = ["ClusterPool", "Inside", "connect", "connected", "joblib_backend", "machines", "ray_engine"]
