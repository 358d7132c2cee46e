"""What docs/ground-truth.md says: each section asks `pgrl diagnose`, draws one picture and writes one statement."""
