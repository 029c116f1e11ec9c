"""What bench/peers.py and bench/scale.py share: engines, load, limits, statistics, reports."""
