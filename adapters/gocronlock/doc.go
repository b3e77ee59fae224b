// Package gocronlock runs the jobs of gocron at most once in each period on all machines.
package gocronlock
