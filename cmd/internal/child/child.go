// Package child starts the command of run as a child process, with the terminal and the signals that
// belong to it, and observes other processes.
package child
