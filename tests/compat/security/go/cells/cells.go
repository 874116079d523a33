// Package cells reads what a program is to do, and reports it; tests/compat/security/cells.py says what a cell has.
package cells

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Patience is for a cell that is let in, RefusedWithin for one that is not.
const (
	Records       = 20
	Patience      = 60 * time.Second
	RefusedWithin = 10 * time.Second
)

type Cell struct {
	Name        string
	Bootstrap   string
	Topic       string
	Mechanism   string
	User        string
	Password    string
	CA          string
	Certificate string
	TokenPath   string `json:"token_path"`
	Service     string
	Principal   string
	Keytab      string
	Krb5Conf    string `json:"krb5_conf"`
	IsRefused   bool   `json:"is_refused"`
}

func (cell Cell) Token() string {
	text, err := os.ReadFile(cell.TokenPath)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// User and realm of the principal.
func (cell Cell) Kerberos() (string, string) {
	user, realm, _ := strings.Cut(cell.Principal, "@")
	return user, realm
}

func (cell Cell) TLS() (*tls.Config, error) {
	if cell.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(cell.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if cell.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(cell.Certificate, cell.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (cell Cell) Values() []string {
	values := make([]string, Records)
	for number := range values {
		values[number] = fmt.Sprintf("%s %d", cell.Name, number)
	}
	return values
}

func (cell Cell) Equal(found []string) error {
	if !slices.Equal(found, cell.Values()) {
		return fmt.Errorf("read %d records that are not those sent", len(found))
	}
	return nil
}

// Run does each cell of the file that is named by the first argument: `use` where it is let in, `refused` where its
// connection has to fail. The mechanisms that the client does not have are left out.
func Run(module string, use func(Cell) error, refused func(Cell) error, lacking ...string) {
	var all []Cell
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		panic(err)
	}
	all = slices.DeleteFunc(all, func(cell Cell) bool { return slices.Contains(lacking, cell.Mechanism) })
	names := []string{}
	for _, cell := range all {
		names = append(names, cell.Name)
	}
	fmt.Println("version", version(module))
	fmt.Println("plan", strings.Join(names, " "))
	for _, cell := range all {
		if err := do(cell, use, refused); err != nil {
			fmt.Printf("failed %s: %s\n", cell.Name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok", cell.Name)
		}
	}
}

func do(cell Cell, use func(Cell) error, refused func(Cell) error) error {
	if !cell.IsRefused {
		return use(cell)
	}
	begin := time.Now()
	err := refused(cell)
	if err == nil {
		return fmt.Errorf("it is let in")
	}
	if time.Since(begin) > RefusedWithin {
		return fmt.Errorf("refused after %s: %s", time.Since(begin), err)
	}
	return nil
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return each.Version
		}
	}
	return "unknown"
}
