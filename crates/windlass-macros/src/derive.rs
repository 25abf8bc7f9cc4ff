use crate::attributes::Attributes;
use heck::ToSnakeCase;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataStruct, DeriveInput, Error, Fields, Ident, LitStr, Result, ext::IdentExt};

pub(crate) fn job(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let Attributes {
        kind,
        queue,
        priority,
        max_attempts,
        timeout,
        cost,
        backoff,
        retry_delay,
        encrypted,
        key,
        unique,
    } = Attributes::parse(&input.attrs)?;
    if let Some(unique) = &unique {
        unique.check(&input, encrypted.is_some())?;
    }
    let key = key.map(|name| field(&input, &name)).transpose()?.map(|field| {
        quote! {
            fn key(&self) -> ::core::option::Option<::std::string::String> {
                ::core::option::Option::Some(::std::string::ToString::to_string(&self.#field))
            }
        }
    });
    let DeriveInput { ident, generics, .. } = input;
    if !generics.params.is_empty() {
        let message = "a job has one kind, so its type cannot have parameters; derive it for a type without";
        return Err(Error::new_spanned(generics, message));
    }
    let kind = kind.map_or_else(|| ident.unraw().to_string().to_snake_case(), |kind| kind.value());
    let queue = queue.map(|queue| quote!(const QUEUE: &'static str = #queue;));
    let priority = priority.map(|priority| quote!(const PRIORITY: i16 = #priority;));
    let max_attempts = max_attempts.map(|most| quote!(const MAX_ATTEMPTS: u16 = #most;));
    let cost = cost.map(|cost| quote!(const COST: u32 = #cost;));
    let timeout = timeout.map(|timeout| {
        let (seconds, nanoseconds) = (timeout.as_secs(), timeout.subsec_nanos());
        quote! {
            const TIMEOUT: ::core::option::Option<::core::time::Duration> =
                ::core::option::Option::Some(::core::time::Duration::new(#seconds, #nanoseconds));
        }
    });
    let encrypted = encrypted.map(|()| {
        quote!(
            const ENCRYPTED: bool = true;
        )
    });
    let retry_policy = backoff.map(|policy| {
        quote! {
            fn retry_policy() -> ::core::option::Option<::windlass::RetryPolicy> {
                ::core::option::Option::Some(#policy)
            }
        }
    });
    let retry_delay = retry_delay.map(|function| {
        quote! {
            fn retry_delay(attempt: u16, error: &str) -> ::core::option::Option<::core::time::Duration> {
                ::core::option::Option::Some(#function(attempt, error))
            }
        }
    });
    let unique = unique.map(|unique| {
        quote! {
            fn unique() -> ::core::option::Option<::windlass::Unique> {
                ::core::option::Option::Some(#unique)
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl ::windlass::Job for #ident {
            const KIND: &'static str = #kind;
            #queue
            #priority
            #max_attempts
            #timeout
            #cost
            #encrypted
            #retry_policy
            #retry_delay
            #key
            #unique
        }
    })
}

/// The field of a struct with this name.
fn field(input: &DeriveInput, name: &LitStr) -> Result<Ident> {
    let fields = match &input.data {
        Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) => &fields.named,
        _ => {
            return Err(Error::new(
                name.span(),
                "key names a field, so the job must be a struct with named fields",
            ));
        }
    };
    let known: Vec<_> = fields.iter().filter_map(|field| field.ident.clone()).collect();
    let found = known.iter().find(|field| field.unraw() == name.value());
    found.cloned().ok_or_else(|| {
        let known: Vec<_> = known.iter().map(|field| field.unraw().to_string()).collect();
        Error::new(name.span(), format!("{} has no field {:?}; it has {known:?}", input.ident, name.value()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(input: &str) -> String {
        job(input.parse().expect("tokens")).expect("it derives").to_string()
    }

    fn refused(attribute: &str) -> String {
        let input = format!("#[job({attribute})] struct Job;");
        job(input.parse().expect("tokens")).expect_err("it is refused").to_string()
    }

    #[test]
    fn the_kind_is_the_name_in_snake_case_unless_it_is_given() {
        for (name, kind) in
            [("SendMail", "send_mail"), ("HTTPRequest", "http_request"), ("r#type", "type"), ("Md5", "md5")]
        {
            let impl_of_it = derived(&format!("struct {name} {{ a: u8 }}"));
            assert!(impl_of_it.contains(&format!("KIND : & 'static str = \"{kind}\"")), "{impl_of_it}");
        }
        assert!(derived("#[job(kind = \"a.b\")] enum E { A }").contains("\"a.b\""));
    }

    #[test]
    fn only_what_is_said_is_set() {
        let plain = derived("struct A;");
        for constant in [
            "QUEUE",
            "PRIORITY",
            "MAX_ATTEMPTS",
            "TIMEOUT",
            "COST",
            "retry_policy",
            "retry_delay",
            "ENCRYPTED",
            "key",
            "unique",
        ] {
            assert!(!plain.contains(constant), "{plain}");
        }
        let full = derived(
            "#[job(queue = \"q\", priority = -5)] #[job(max_attempts = 3, timeout = \"1m 500ms\", cost = 5, encrypted)] struct A;",
        );
        assert!(full.contains("QUEUE : & 'static str = \"q\""), "{full}");
        assert!(full.contains("- 5i16") || full.contains("-5i16"), "{full}");
        let retries = derived("#[job(backoff = \"linear:10s:5m\", retry_delay = mine::delay)] struct A;");
        assert!(
            retries.contains(":: linear (:: core :: time :: Duration :: new (10u64 , 0u32))"),
            "{retries}"
        );
        assert!(retries.contains("max : :: core :: time :: Duration :: new (300u64 , 0u32)"), "{retries}");
        assert!(retries.contains("mine :: delay (attempt , error)"), "{retries}");
        assert!(full.contains("3u16") && full.contains("60u64 , 500000000u32"), "{full}");
        assert!(full.contains("COST : u32 = 5u32"), "{full}");
        assert!(full.contains("ENCRYPTED : bool = true"), "{full}");
    }

    #[test]
    fn a_key_is_the_value_of_a_field() {
        let keyed = derived("#[job(key = \"type\")] struct A { user: u8, r#type: u8 }");
        assert!(keyed.contains("ToString :: to_string (& self . r#type)"), "{keyed}");
        let typo = job("#[job(key = \"usr\")] struct A { user: u8, r#type: u8 }".parse().expect("tokens"));
        let error = typo.expect_err("refused").to_string();
        assert_eq!(error, "A has no field \"usr\"; it has [\"user\", \"type\"]");
    }

    #[test]
    fn a_unique_job_says_how() {
        let unique = |attribute: &str| {
            let whole = derived(&format!("#[job({attribute})] struct A {{ user: u8, r#type: u8 }}"));
            let (_, rest) = whole.split_once("Option :: Some (").expect("a function");
            rest.replace(' ', "")
                .replace("::windlass::", "")
                .replace("::core::time::", "")
                .replace("::core::option::", "")
        };
        for (attribute, made) in [
            ("unique", "Unique::by_args())}}"),
            ("unique(args)", "Unique::by_args())}}"),
            (
                "unique(key = \"a\", on_conflict = \"error\")",
                "Unique::by_key(\"a\").on_conflict(OnConflict::Error))}}",
            ),
            ("encrypted, unique(key = \"a\", on_conflict = \"keep\")", "Unique::by_key(\"a\"))}}"),
            (
                "unique(fields(\"user\", \"type\"), scope = \"queue\", until = \"started\", on_conflict = \"replace\", max_wait = \"1m\")",
                "Unique::by_fields([\"user\",\"type\"]).in_queue().until_started()\
                 .on_conflict(OnConflict::Replace{max_wait:Option::Some(Duration::new(60u64,0u32))}))}}",
            ),
            (
                "unique(window = \"1s 5ms\", scope = \"kind\", on_conflict = \"extend\")",
                "Unique::by_args().for_window(Duration::new(1u64,5000000u32)).on_conflict(OnConflict::Extend))}}",
            ),
            (
                "unique(on_conflict = \"replace\")",
                "Unique::by_args().on_conflict(OnConflict::Replace{max_wait:Option::None}))}}",
            ),
        ] {
            assert_eq!(unique(attribute), made, "{attribute}");
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_named() {
        let error = |input: &str| job(input.parse().expect("tokens")).err().map(|error| error.to_string());
        let typo = error("#[job(unique(fields(\"user\")))] struct A { usr: u8, day: u8 }");
        assert_eq!(typo.as_deref(), Some("A has no field \"user\"; it has [\"usr\", \"day\"]"));
        for serde_knows in [
            "#[job(unique(fields(\"user\")))] #[serde(rename_all = \"lowercase\")] struct A { User: u8 }",
            "#[job(unique(fields(\"user\")))] struct A { #[serde(rename = \"user\")] usr: u8 }",
            "#[job(unique(fields(\"user\")))] enum A { One { user: u8 } }",
            "#[job(unique(fields(\"user\")))] struct A(Inner);",
        ] {
            assert_eq!(error(serde_knows), None, "{serde_knows}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (attribute, words) in [
            ("kind = \"\"", "invalid kind"),
            ("kind = \"send mail\"", "without spaces"),
            ("kind = mail", "like kind = \"mail.send\""),
            ("queue = \"a b\"", "invalid queue name"),
            ("queue = \"..\"", "but not . or .."),
            ("queue = 7", "like queue = \"mail\""),
            ("priority = 101", "-100 to 100"),
            ("priority = \"high\"", "-100 to 100"),
            ("max_attempts = 0", "1 to 1000"),
            ("max_attempts = 1001", "1 to 1000"),
            ("cost = 0", "1 to 1000000"),
            ("cost = 1_000_001", "1 to 1000000"),
            ("cost = \"much\"", "like cost = 5"),
            ("timeout = \"soon\"", "like \"30s\""),
            ("timeout = \"0s\"", "leaves no time"),
            ("timeout = 30", "like timeout = \"30s\""),
            (
                "retries = 3",
                "known are kind, queue, priority, max_attempts, timeout, cost, backoff, retry_delay, key, encrypted and unique",
            ),
            ("backoff = \"sometimes:1s\"", "unknown backoff"),
            ("backoff = \"linear\"", "a backoff has a first delay"),
            ("backoff = \"linear:soon\"", "like \"linear:10s\""),
            ("backoff = \"fixed:1s:2s\"", "too many delays"),
            ("backoff = \"linear:1h:1s\"", "the longest delay is shorter"),
            ("key = tenant", "like key = \"tenant\""),
            ("key = \"tenant\"", "a struct with named fields"),
            ("kind = \"a\", kind = \"b\"", "given twice"),
            ("encrypted, encrypted", "given twice"),
            ("encrypted = false", "expected"),
            ("unique, unique", "given twice"),
            ("unique = \"user\"", "like unique(fields(\"user\"))"),
            ("unique(user)", "unknown option of unique; known are args"),
            ("unique(fields)", "like fields(\"user\", \"day\")"),
            ("unique(fields = \"user\")", "like fields(\"user\", \"day\")"),
            ("unique(fields(user))", "like fields(\"user\", \"day\")"),
            ("unique(fields())", "1 to 32 fields, got 0"),
            ("unique(fields(\"a\", \"b\", \"a\"))", "field \"a\" is named twice"),
            ("unique(args, key = \"a\")", "keep one"),
            ("unique(key = \"\")", "1 to 200 bytes"),
            ("unique(key = 7)", "like key = \"nightly\""),
            ("unique(scope = \"store\")", "scope is one of \"kind\", \"queue\""),
            ("unique(until = \"5m\")", "until is one of \"finished\", \"started\""),
            ("unique(until = \"started\", window = \"5m\")", "keep one of until and window"),
            ("unique(window = \"soon\")", "write a duration"),
            ("unique(window = \"0s\")", "a millisecond to 100 years"),
            ("unique(on_conflict = \"drop\")", "one of \"keep\", \"replace\", \"extend\", \"error\""),
            ("unique(on_conflict = \"extend\")", "needs a window to extend"),
            ("unique(max_wait = \"5m\")", "goes with on_conflict = \"replace\""),
            ("encrypted, unique", "encrypted args make no key"),
            ("unique(fields(\"user\")), encrypted", "encrypted args make no key"),
        ] {
            let error = refused(attribute);
            assert!(error.contains(words), "{attribute}: {error}");
        }
        let generic = job("struct A<T>(T);".parse().expect("tokens")).expect_err("refused");
        assert!(generic.to_string().contains("cannot have parameters"), "{generic}");
    }
}
