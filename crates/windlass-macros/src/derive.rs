use crate::attributes::Attributes;
use heck::ToSnakeCase;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Result, ext::IdentExt};

pub(crate) fn job(input: TokenStream) -> Result<TokenStream> {
    let DeriveInput { attrs, ident, generics, .. } = syn::parse2(input)?;
    let Attributes { kind, queue, priority, max_attempts, timeout, backoff, retry_delay, encrypted } =
        Attributes::parse(&attrs)?;
    if !generics.params.is_empty() {
        let message = "a job has one kind, so its type cannot have parameters; derive it for a type without";
        return Err(Error::new_spanned(generics, message));
    }
    let kind = kind.map_or_else(|| ident.unraw().to_string().to_snake_case(), |kind| kind.value());
    let queue = queue.map(|queue| quote!(const QUEUE: &'static str = #queue;));
    let priority = priority.map(|priority| quote!(const PRIORITY: i16 = #priority;));
    let max_attempts = max_attempts.map(|most| quote!(const MAX_ATTEMPTS: u16 = #most;));
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
    Ok(quote! {
        #[automatically_derived]
        impl ::windlass::Job for #ident {
            const KIND: &'static str = #kind;
            #queue
            #priority
            #max_attempts
            #timeout
            #encrypted
            #retry_policy
            #retry_delay
        }
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
        for constant in
            ["QUEUE", "PRIORITY", "MAX_ATTEMPTS", "TIMEOUT", "retry_policy", "retry_delay", "ENCRYPTED"]
        {
            assert!(!plain.contains(constant), "{plain}");
        }
        let full = derived(
            "#[job(queue = \"q\", priority = -5)] #[job(max_attempts = 3, timeout = \"1m 500ms\", encrypted)] struct A;",
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
        assert!(full.contains("ENCRYPTED : bool = true"), "{full}");
    }

    #[test]
    fn mistakes_are_named() {
        for (attribute, words) in [
            ("kind = \"\"", "invalid kind"),
            ("kind = \"send mail\"", "without spaces"),
            ("kind = mail", "like kind = \"mail.send\""),
            ("queue = \"a b\"", "invalid queue name"),
            ("queue = 7", "like queue = \"mail\""),
            ("priority = 40000", "-32768 to 32767"),
            ("priority = \"high\"", "-32768 to 32767"),
            ("max_attempts = 0", "1 to 1000"),
            ("max_attempts = 1001", "1 to 1000"),
            ("timeout = \"soon\"", "like \"30s\""),
            ("timeout = \"0s\"", "leaves no time"),
            ("timeout = 30", "like timeout = \"30s\""),
            (
                "retries = 3",
                "known are kind, queue, priority, max_attempts, timeout, backoff, retry_delay and encrypted",
            ),
            ("backoff = \"sometimes:1s\"", "unknown backoff"),
            ("backoff = \"linear\"", "a backoff has a first delay"),
            ("backoff = \"linear:soon\"", "like \"linear:10s\""),
            ("backoff = \"fixed:1s:2s\"", "too many delays"),
            ("backoff = \"linear:1h:1s\"", "the longest delay is shorter"),
            ("kind = \"a\", kind = \"b\"", "given twice"),
            ("encrypted, encrypted", "given twice"),
            ("encrypted = false", "expected"),
        ] {
            let error = refused(attribute);
            assert!(error.contains(words), "{attribute}: {error}");
        }
        let generic = job("struct A<T>(T);".parse().expect("tokens")).expect_err("refused");
        assert!(generic.to_string().contains("cannot have parameters"), "{generic}");
    }
}
