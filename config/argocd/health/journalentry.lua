-- The health of a JournalEntry, for Argo CD. It has no status and never changes.
return { status = "Healthy", message = "" }
