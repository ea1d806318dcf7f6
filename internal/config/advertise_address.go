package config

import (
	"errors"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/state"
)

// fillAddress sets the advertise address, or checks that of the user.
func fillAddress(e *v1beta4.APIEndpoint, facts Facts, at *field.Path) field.ErrorList {
	ip, err := chooseAddress(e.AdvertiseAddress, facts.Addresses)
	if errors.Is(err, errNoDefaultRoute) && facts.AddressOptional {
		e.AdvertiseAddress = ""
		return nil
	}
	if err != nil {
		wanted := e.AdvertiseAddress
		e.AdvertiseAddress = ""
		return field.ErrorList{field.Invalid(at.Child("advertiseAddress"), wanted, err.Error())}
	}
	e.AdvertiseAddress = ip
	return nil
}

// errNoDefaultRoute is the error if no advertise address can be chosen. minikube parses the words
// "from default routes".
var errNoDefaultRoute = errors.New(
	"cannot choose an address from default routes: this machine has no default route; " +
		"set --apiserver-advertise-address, or localAPIEndpoint.advertiseAddress in the file")

// chooseAddress returns the advertise address for the one that the user set, which may be empty.
// It returns a text that is not an address as it is, for the checks to report.
func chooseAddress(wanted string, addresses []state.Address) (string, error) {
	byDefaultRoute := func(a state.Address) bool { return a.DefaultRoute }
	onLoopback := func(a state.Address) bool { return a.Loopback }
	ip, err := netip.ParseAddr(wanted)
	switch {
	case wanted == "" || err == nil && ip.IsUnspecified():
		found := append(pickAddresses(addresses, byDefaultRoute, ip.Is6()),
			pickAddresses(addresses, onLoopback, ip.Is6())...)
		if len(found) == 0 {
			return "", errNoDefaultRoute
		}
		return found[0], nil
	case err == nil && ip.IsLoopback():
		found := pickAddresses(addresses, onLoopback, ip.Is6())
		if len(found) == 0 {
			return "", errors.New(
				"the loopback interface has no address that other machines can reach: set another address")
		}
		return found[0], nil
	}
	return wanted, nil
}

// pickAddresses lists the IP addresses that pass, those of the preferred family first.
func pickAddresses(addresses []state.Address, pass func(state.Address) bool,
	prefer6 bool) []string {
	var preferred, others []string
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a.IP)
		switch {
		case err != nil || !pass(a):
		case ip.Is6() == prefer6:
			preferred = append(preferred, a.IP)
		default:
			others = append(others, a.IP)
		}
	}
	return append(preferred, others...)
}
