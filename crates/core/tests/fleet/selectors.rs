//! Label selectors as users write them: the messages about those that do not parse, and the form in which the others
//! are sent.

use flipop_core::model::selector::{Selector, is_dns_label};

#[test]
fn what_is_wrong_with_a_selector_is_named_with_what_stands_there_and_what_should() {
    for (text, problem) in [
        ("a b", "found \"b\", expected one of '=', '==', '!=', 'in', 'notin', '<', '>'"),
        ("a like (b)", "found \"like\", expected one of '=', '==', '!=', 'in', 'notin', '<', '>'"),
        ("a in b", "found \"b\", expected '('"),
        ("a in", "found \"\", expected '('"),
        ("a in (b c)", "found \"c\", expected ',' or ')'"),
        ("a notin (b=", "found \"=\", expected ',' or ')'"),
        ("a in (!", "found \"!\", expected a label value or ')'"),
        ("a=!", "found \"!\", expected a label value"),
        (",", "found \",\", expected a label key"),
        ("!a=b", "found \"=\", expected ',' or the end"),
        ("-a", "\"-a\" is not a label key"),
        ("A.example/b", "\"A.example/b\" is not a label key"),
        ("a=b_", "\"b_\" is not a label value"),
        ("a>b", "\"b\" is not a whole number"),
    ] {
        let error = Selector::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(problem), "{text}: {error}");
    }
    let long = "x".repeat(5_000);
    let error = Selector::parse(&format!("{long} {long}")).unwrap_err().to_string();
    assert!(error.contains("xxx") && error.len() < 1_000, "{error}");
}

#[test]
fn letters_digits_and_dashes_are_a_dns_label_and_nothing_else_is() {
    for label in ["a", "1", "a-1", "1-a", "0a9", &"a".repeat(63)] {
        assert!(is_dns_label(label) && Selector::parse(&format!("{label}.b/c=d")).is_ok(), "{label}");
    }
    for label in ["", "-", "a-", "-1", "A", "a_b", "a.b", "ä", &"a".repeat(64)] {
        assert!(!is_dns_label(label), "{label}");
    }
    for prefix in ["", "-1", "a-", "A", "a_b", "a..b"] {
        assert!(Selector::parse(&format!("{prefix}/c=d")).is_err(), "{prefix}");
    }
}

#[test]
fn a_selector_is_sent_to_the_api_server_in_its_shortest_form_whatever_it_was_written_like() {
    for (text, sent) in [
        ("", ""),
        (" a , a ", "a"),
        ("! a", "!a"),
        ("a == b", "a=b"),
        ("a in (b)", "a=b"),
        ("a notin (b)", "a!=b"),
        ("a in (c, b,c)", "a in (b,c)"),
        ("a notin (c,b)", "a notin (b,c)"),
        ("n<6, b=1, n>4", "b=1,n>4,n<6"),
    ] {
        let selector = Selector::parse(text).unwrap();
        assert_eq!(selector.to_string(), sent, "{text}");
        assert_eq!(Selector::parse(sent), Ok(selector.clone()));
        assert_eq!(selector.is_empty(), sent.is_empty());
    }
}

#[test]
fn numbers_are_compared_without_the_bound_itself() {
    let selected = |selector: &str, value: &str| {
        Selector::parse(selector).unwrap().matches(&[("n".to_owned(), value.to_owned())].into())
    };
    for (value, less, greater) in
        [("4", true, false), ("5", false, false), ("6", false, true), ("x", false, false)]
    {
        assert_eq!((selected("n<5", value), selected("n>5", value)), (less, greater), "{value}");
    }
}
