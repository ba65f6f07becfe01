#[test]
fn leap_years() {
    let found = [1900, 1996, 2000, 2023].map(|year| almanac::years::is_leap(year).to_string());
    assert_eq!(found.join(" "), std::fs::read_to_string("leap.txt").unwrap().trim());
}
