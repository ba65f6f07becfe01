//! Answers the questions of the oracle with the work: one JSON list in, one JSON list out.
use almanac::{numerals::to_roman, years};

fn main() {
    let text = std::io::read_to_string(std::io::stdin()).unwrap();
    let answer = |question: &str| {
        let (names, number) = question.rsplit_once(", ").unwrap();
        let number = number.trim_end_matches(']').parse().unwrap();
        match names.rsplit('"').nth(1).unwrap() {
            "is_leap" => years::is_leap(number).to_string(),
            "days_in" => years::days_in(number).to_string(),
            _ => to_roman(number).map_or("null".to_string(), |text| format!("{text:?}")),
        }
    };
    let answers: Vec<String> = text.split("], ").map(answer).collect();
    println!("[{}]", answers.join(", "));
}
