"""Files, locks, host-to-device copies, tables and progress output."""
