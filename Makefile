# What people and CI call. The work is in the scripts that are named here.

SHELL := bash

.PHONY: test quick lint vulnerabilities bench torture tidy site release image

# Everything that has to hold: formatting, vet, staticcheck, types for other systems, and all
# tests with the race detector, those against real servers too. It fetches and
# builds what it needs, and caches it in the user's cache directory.
test:
	bash internal/test.sh

# The tests that need no server.
quick:
	. internal/modules.sh && go test "$${released[@]}" ./examples/...

lint:
	bash internal/lint.sh

# Known vulnerabilities in what the packages call.
vulnerabilities:
	bash internal/vulnerabilities.sh

# Requests per operation and times, beside raw requests and beside peers.
bench:
	bash internal/bench.sh

# The long campaigns: kills, power cuts, model checks, simulations. Hours.
torture:
	HOLDFAST_TORTURE=1 bash internal/test.sh -timeout 6h

# Tidies all modules.
tidy:
	bash internal/tidy.sh

# The documents as pages with a search, in site/: open site/index.html. Python and npm
# fetch the generator at first, which takes half a minute.
site:
	bash internal/site.sh

# Packages of a release, in dist/.
release:
	bash internal/release.sh $(VERSION)

# The container image of a release that lies in dist/.
image:
	bash internal/image.sh $(VERSION)
