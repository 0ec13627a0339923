// Package cost calculates the cost of model calls: tokens times price. It uses whole numbers only, so that every amount
// is exact, and depends only on its arguments.
package cost
