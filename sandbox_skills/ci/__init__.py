"""Test cases of skills: files → cases → runs in sandboxes of their own → reports. Read `suite.py` first."""
