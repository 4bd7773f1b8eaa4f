"""Pools on a cluster of machines, through Ray: parts that live in actors, and a lost one built again from storage."""

from apod.maxmin.ray.connect import connect, connected
from apod.maxmin.ray.engine import joblib_backend, machines, ray_engine
from apod.maxmin.ray.pool import ClusterPool

__all__ = ["ClusterPool", "connect", "connected", "joblib_backend", "machines", "ray_engine"]
