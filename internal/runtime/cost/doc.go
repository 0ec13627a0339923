// Package cost says what model calls cost: tokens times price. It reckons with whole numbers alone, so that every
// amount is exact, and knows nothing but what it is given.
package cost
