//! The orders of a scenario: every way to interleave its sessions' steps, each with a number.

use std::collections::BTreeSet;

/// How many orders there are for sessions with so many steps: the multinomial coefficient, or the largest
/// number when it does not fit.
pub fn count(steps: &[usize]) -> u64 {
    let mut total = 1_u64;
    let mut placed = 0_u64;
    for &session in steps {
        for nth in 1..=session as u64 {
            placed += 1;
            // Exact: the product of consecutive quotients is a binomial coefficient at each step.
            total = match total.checked_mul(placed) {
                Some(product) => product / nth,
                None => return u64::MAX,
            };
        }
    }
    total
}

/// The order with this number, from 0: which session takes each step, in lexical order of all orders.
pub fn nth(steps: &[usize], mut number: u64) -> Vec<usize> {
    let mut left = steps.to_vec();
    let mut order = Vec::with_capacity(steps.iter().sum());
    while order.len() < order.capacity() {
        for session in 0..left.len() {
            if left[session] == 0 {
                continue;
            }
            left[session] -= 1;
            let behind = count(&left);
            if number < behind {
                order.push(session);
                break;
            }
            number -= behind;
            left[session] += 1;
        }
        if left.iter().sum::<usize>() + order.len() != order.capacity() {
            return order; // the number was beyond the last order
        }
    }
    order
}

/// Which of `total` orders to try: all, or a sample of `most` that the seed decides.
pub fn chosen(total: u64, most: u64, seed: u64) -> Vec<u64> {
    if total <= most {
        return (0..total).collect();
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut numbers = BTreeSet::new();
    while (numbers.len() as u64) < most {
        numbers.insert(random.u64(0..total));
    }
    numbers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_another_order() {
        for steps in [&[2, 2, 2][..], &[1], &[3, 1], &[0, 2, 1], &[4, 3, 2]] {
            let total = count(steps);
            let orders: BTreeSet<_> = (0..total).map(|number| nth(steps, number)).collect();
            assert_eq!(orders.len() as u64, total, "{steps:?}");
            for order in orders {
                for (session, &expected) in steps.iter().enumerate() {
                    assert_eq!(order.iter().filter(|&&step| step == session).count(), expected);
                }
            }
        }
        assert_eq!((count(&[2, 2, 2]), count(&[4, 5, 2])), (90, 6930));
        assert_eq!(nth(&[1, 1], 0), [0, 1]);
    }

    #[test]
    fn a_sample_is_repeatable() {
        assert_eq!(chosen(3, 10, 7), [0, 1, 2]);
        assert_eq!(chosen(1_000_000, 50, 7), chosen(1_000_000, 50, 7));
        assert_eq!(chosen(1_000_000, 50, 7).len(), 50);
    }
}
