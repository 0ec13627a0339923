-- The health of a JournalEntry, for Argo CD. It has no status: once it is written, it is what it is.
return { status = "Healthy", message = "" }
