"""Audits: rules in Sigma's format over the tables, with DuckDB or on Spark, and their findings.

A rule file (`rules/GROUP/NAME.yml` for those of the package) is YAML with one rule, or several as documents:

    title: Password in clear                      required
    id: 6e1c7a5e-...                              required, a UUID
    name: password-in-clear                       the short name: `--explain`, suppressions, findings' `rule`
    level: high                                   informational, low, medium, high, critical (default medium)
    description: ...                              what it means
    references: [https://...]
    tags: [attack.t1040]
    falsepositives: [...]                         what else could look like this
    remedy: ...                                   what to do; a field of ours
    logsource: {product: nats, category: TABLE}   one of our tables
    detection: {selection: {...}, condition: selection}
    fields: [user, originator]                    shown with a finding; by default those that it tests
    subject: user                                 the field that is the finding's subject; a field of ours

A correlation has `correlation` instead of `logsource` and `detection`. Fields are explained in `fields`,
values in `matching`, correlations in `correlations`. What of Sigma is not supported is refused, by name and
line.
"""
