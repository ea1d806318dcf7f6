//go:build linux

package linux

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// removeIdleTable removes the chains of a table of nftables, then the table. The kernel decides at the
// moment of each removal: what has a rule, a chain, a set or the like by then stays.
func removeIdleTable(t change.IdleTable) error {
	for _, chain := range t.Chains {
		if err := removeIfEmpty(t, unix.NFT_MSG_DELCHAIN, map[uint16]string{
			unix.NFTA_CHAIN_TABLE: t.Name, unix.NFTA_CHAIN_NAME: chain}); err != nil {
			return fmt.Errorf("removing chain %s of table %s %s: %w", chain, t.Family, t.Name, err)
		}
	}
	if !t.Whole {
		return nil
	}
	if err := removeIfEmpty(t, unix.NFT_MSG_DELTABLE,
		map[uint16]string{unix.NFTA_TABLE_NAME: t.Name}); err != nil {
		return fmt.Errorf("removing table %s %s: %w", t.Family, t.Name, err)
	}
	return nil
}

// removeIfEmpty sends one message in a transaction of its own, as linux/netfilter/nf_tables.h defines
// it. With NLM_F_NONREC the kernel refuses to remove what is used; nft(8) cannot ask for that.
func removeIfEmpty(t change.IdleTable, message uint16, names map[uint16]string) error {
	attributes := netlink.NewAttributeEncoder()
	for kind, name := range names {
		attributes.String(kind, name)
	}
	encoded, err := attributes.Encode()
	if err != nil {
		return err
	}
	family := byte(unix.NFPROTO_IPV4)
	if t.Family == "ip6" {
		family = unix.NFPROTO_IPV6
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return err
	}
	_, err = conn.SendMessages([]netlink.Message{
		newBatchLimit(unix.NFNL_MSG_BATCH_BEGIN),
		{
			Header: netlink.Header{
				Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | message),
				Flags: netlink.Request | netlink.Acknowledge | unix.NLM_F_NONREC,
			},
			Data: append([]byte{family, unix.NFNETLINK_V0, 0, 0}, encoded...),
		},
		newBatchLimit(unix.NFNL_MSG_BATCH_END),
	})
	if err == nil {
		_, err = conn.Receive()
	}
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOENT) { // it is used, or gone
		err = nil
	}
	return errors.Join(err, conn.Close())
}

// newBatchLimit returns the message that begins or ends a transaction of nftables.
func newBatchLimit(kind netlink.HeaderType) netlink.Message {
	header := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}
	return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request},
		Data: binary.BigEndian.AppendUint16(header, unix.NFNL_SUBSYS_NFTABLES)}
}
