-- The health of a Record, for Argo CD. It has no status: it is what the manager has written last.
return { status = "Healthy", message = "" }
