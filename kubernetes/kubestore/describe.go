package kubestore

import (
	"context"
	"net/http"
	"slices"
)

// Description contains the properties of an API server, and the rights of the user.
type Description struct {
	Version string   // such as v1.34.1
	Missing []string // the verbs for Lease objects that the user may not use
}

// Describe reads the properties of the cluster, in two requests.
func (s *Store) Describe(ctx context.Context) (found Description, err error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := s.d.send(ctx, http.MethodGet, "/version", nil, nil, &version, maxAnswer); err != nil {
		return found, err
	}
	found.Version = version.GitVersion
	var review struct {
		Status struct {
			Rules []struct {
				Verbs     []string `json:"verbs"`
				Groups    []string `json:"apiGroups"`
				Resources []string `json:"resources"`
				Names     []string `json:"resourceNames"`
			} `json:"resourceRules"`
		} `json:"status"`
	}
	body := map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": map[string]any{"namespace": s.d.o.Namespace},
	}
	if err := s.d.send(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", nil, body, &review, maxAnswer); err != nil {
		return found, err
	}
	has := func(list []string, name string) bool {
		return slices.Contains(list, name) || slices.Contains(list, "*")
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "delete"} {
		may := false
		for _, r := range review.Status.Rules {
			may = may || has(r.Verbs, verb) && has(r.Groups, "coordination.k8s.io") && has(r.Resources, "leases") && len(r.Names) == 0
		}
		if !may {
			found.Missing = append(found.Missing, verb)
		}
	}
	return found, nil
}
