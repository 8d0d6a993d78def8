"""Tables, their columns and records, and anomalies: each declared once."""
