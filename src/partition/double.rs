//! A double as text.

use super::Unknown;

/// The text of a double as Java's `Double.toString` prints it, for doubles where every version of Java agrees.
///
/// Those are the multiples of 1/64 below 10^7: Java writes them without an exponent, and their exact decimal form has at
/// most 13 digits, so it is the only one of up to 15 digits that reads back as the same double. With more digits Java
/// before 19 prints some doubles longer than needed (JDK-4511638).
pub(super) fn double_text(value: f64) -> Result<String, Unknown> {
    let exact = value.abs() < 1e7 && (value * 64.0).fract() == 0.0;
    exact.then(|| format!("{value:?}")).ok_or(Unknown::UncertainNumber)
}

#[cfg(test)]
mod tests {
    use super::double_text;
    use crate::partition::Unknown;

    #[test]
    fn only_short_exact_doubles_have_a_text() {
        for (value, text) in
            [(0.0, "0.0"), (1.0, "1.0"), (-5.5, "-5.5"), (0.015625, "0.015625"), (9999999.0, "9999999.0")]
        {
            assert_eq!(double_text(value).as_deref(), Ok(text));
        }
        for value in [0.1, 1e7, -1e7, 1e23, 2e-3, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN] {
            assert_eq!(double_text(value), Err(Unknown::UncertainNumber), "{value}");
        }
    }
}
