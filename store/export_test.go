package store

// AbilityNames returns the names of all abilities.
func AbilityNames() (names []string) {
	for _, a := range knownAbilities() {
		names = append(names, a.name)
	}
	return names
}
