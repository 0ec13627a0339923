package mcp

// Each namespace may have all but an eighth of what is kept.
func ceiling(limit int) int { return limit - limit/8 }

// surplus returns the namespace that must give one up once one was added for a namespace: that one if it has more than
// its ceiling, or the one that has most if all together have more than the limit; false if none must.
func surplus(have map[string]int, added string, limit int) (string, bool) {
	all := 0
	for _, n := range have {
		all += n
	}
	switch {
	case have[added] > ceiling(limit):
		return added, true
	case all <= limit:
		return "", false
	}
	most := added
	for namespace, n := range have {
		if n > have[most] || n == have[most] && most != added && namespace < most {
			most = namespace
		}
	}
	return most, true
}
