// Package leaderlock elects the leaders of controllers on any store of Holdfast.
package leaderlock
