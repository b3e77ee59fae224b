package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// Description contains the properties of a cluster.
type Description struct {
	// Members are the members that the client knows, in the order of the URL. Voters is the number of
	// members of the cluster that vote.
	Members []Member
	Voters  int

	// Alarms are the alarms of the cluster: NOSPACE, CORRUPT. If the user may not read them, AlarmsErr is
	// the error.
	Alarms    []string
	AlarmsErr error
}

// Member contains the properties of one member of a cluster.
type Member struct {
	Endpoint string
	Err      error // the member did not answer; the other fields are zero
	Version  string
	Leads    bool
	Learner  bool  // it does not vote, and answers no request
	Size     int64 // of its database, in bytes
	Quota    int64 // the largest size; 0 if the server does not report it
}

// Describe reads the properties of the cluster. It asks each member that the client knows. It fails if no
// member answers.
func (s *Store) Describe(ctx context.Context) (Description, error) {
	var found Description
	var failed error
	for _, endpoint := range s.d.client.Endpoints() {
		m := Member{Endpoint: endpoint}
		status, err := send(ctx, s.d, func(ctx context.Context) (*clientv3.StatusResponse, error) { return s.d.client.Status(ctx, endpoint) })
		if err != nil {
			m.Err, failed = err, cmp.Or(failed, err)
		} else {
			m.Version, m.Learner, m.Size, m.Quota = status.Version, status.IsLearner, status.DbSize, status.DbSizeQuota
			m.Leads = status.Leader != 0 && status.Leader == status.Header.GetMemberId()
		}
		found.Members = append(found.Members, m)
	}
	if !slices.ContainsFunc(found.Members, func(m Member) bool { return m.Err == nil }) {
		return Description{}, cmp.Or(failed, store.ErrUnavailable)
	}
	members, err := send(ctx, s.d, func(ctx context.Context) (*clientv3.MemberListResponse, error) { return s.d.client.MemberList(ctx) })
	if err != nil {
		return Description{}, err
	}
	for _, m := range members.Members {
		if !m.IsLearner {
			found.Voters++
		}
	}
	alarms, err := send(ctx, s.d, func(ctx context.Context) (*clientv3.AlarmResponse, error) { return s.d.client.AlarmList(ctx) })
	if err != nil {
		found.AlarmsErr = err
		return found, nil
	}
	for _, a := range alarms.Alarms {
		if a.Alarm != etcdserverpb.AlarmType_NONE {
			found.Alarms = append(found.Alarms, fmt.Sprint(a.Alarm))
		}
	}
	return found, nil
}
