package allstores

import (
	"context"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/kubernetes/kubestore"
)

// openKubernetes opens k8s://NAMESPACE/PREFIX; see [kubestore.Open] for its parameters.
func openKubernetes(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	return opened(kubestore.Open(ctx, u.String(), &kubestore.Options{Logger: a.Log()}))
}

func kubernetesTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	c := doctor.Finding("rights", "rights for Lease objects", false)
	return examine(ctx, a, u, openKubernetes, "kubernetes", doctor.Step{ID: "cluster", What: "the API server"}, c, func(found kubestore.Description) []doctor.Check {
		if len(found.Missing) > 0 {
			return append(c.Warn("the user may not use "+strings.Join(found.Missing, ", "), "locks need get, list, watch, create and update; doctor and sweep remove objects with delete"), etcdSyncs()...)
		}
		return append(c.OK("all, on Kubernetes %s", found.Version), etcdSyncs()...)
	})
}
