"""The parts of MEMO-Fed."""
