"""Texts from outside that would like to be code."""

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\"'><svg onload=window.hacked=1>",
    "&lt;script&gt; ${window.hacked = 1} `",
    "<!--<script>",
    "\u2028window.hacked=1\u2029",
]
