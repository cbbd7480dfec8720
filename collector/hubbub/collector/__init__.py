"""Counts noisy bits: acknowledged means durable and counted exactly once. Never sees a value, keeps no address."""
