package postgres

// The statements of a sweep, whose plans are tested.
const (
	ListOwners  = listOwners
	ListDeleted = listDeleted
)
