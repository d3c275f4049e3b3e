"""What several tests need; no test imports another test."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))
