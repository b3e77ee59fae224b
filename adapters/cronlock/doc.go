// Package cronlock runs the jobs of robfig/cron at most once in each period on all machines.
package cronlock
