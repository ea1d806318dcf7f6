package redact

import (
	"strings"
	"testing"
)

// Each text contains "planted" where a secret is, and loses nothing that has to stay.
func TestText(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"setting":             {"password: planted\nuser: me", "password: [hidden]\nuser: me"},
		"JSON":                {`{"password": "planted", "user": "me"}`, `{"password": [hidden], "user": "me"}`},
		"escaped JSON":        {`"{\"password\":\"planted\",\"user\":\"me\"}"`, `"{\"password\":[hidden],\"user\":\"me\"}"`},
		"escaped quote":       {`{"password": "a\"planted", "user": 1}`, `{"password": [hidden], "user": 1}`},
		"ends in a backslash": {`{"password": "planted\\", "user": 1}`, `{"password": [hidden], "user": 1}`},
		"without an end":      {"\"password\": \"planted\nuser", "\"password\": [hidden]\nuser"},
		"quote of YAML":       {"password: 'a''planted'\nuser: me", "password: [hidden]\nuser: me"},
		"string of TOML":      {"password = \"\"\"\nplanted\n\"\"\"\nuser = 1", "password = [hidden]\nuser = 1"},
		"list":                {`"passwords": ["planted", "planted"], "a": 1`, `"passwords": [hidden], "a": 1`},
		"block":               {"a:\n- password: |-\n    planted\n\n    planted\n  user: me", "a:\n- password: [hidden]\n  user: me"},
		"block without YAML":  {`"password: >\n  planted\n"`, `"password: [hidden]\n"`},
		"variable":            {"- name: DB_PASSWORD\n  value: planted\n- name: A", "- name: DB_PASSWORD\n  value: [hidden]\n- name: A"},
		"flag":                {"app --db-password planted --user me", "app --db-password [hidden] --user me"},
		"items":               {"- --password\n- planted\n- --user", "- --password\n- [hidden]\n- --user"},
		"flag without value":  {"--client-cert-auth --user me", "--client-cert-auth --user me"},
		"short names":         {"PGPASS_PW=planted DB_PASS=planted bypass: no", "PGPASS_PW=[hidden] DB_PASS=[hidden] bypass: no"},
		"next line":           {"password:\n  planted\nauth:\n  user: me", "password:\n  [hidden]\nauth:\n  user: me"},
		"hidden already":      {"password: '[hidden]'\ntoken: [hidden]", "password: [hidden]\ntoken: [hidden]"},
		"no value":            {"password:", "password:"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if got := Text(c.text); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestDocument(t *testing.T) {
	for name, c := range map[string]struct{ text, want, err string }{
		"numbers":   {text: "password: 1234\nport: 1234\n", want: "password: [hidden]\nport: 1234\n"},
		"documents": {text: "# token: planted\n---\na: 1\n---  \nkind: Secret\ndata: {a: planted}\n", want: "a: 1\n---\ndata: '[hidden]'\nkind: Secret\n"},
		"damaged":   {text: "a: 1\n---\nb: planted\n c: [planted\n", err: "near line 4"},
		"JSON":      {text: "{\n\t\"token\": \"planted\"}", want: "token: [hidden]\n"},
		"inner document": {text: "data: {a: \"password: |\\n  planted\\nuser: me\\n\"}\n",
			want: "data:\n  a: |\n    password: [hidden]\n    user: me\n"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			got, err := Document([]byte(c.text))
			if c.err != "" {
				if err == nil || !strings.HasSuffix(err.Error(), c.err) || strings.Contains(err.Error(), "planted") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}
