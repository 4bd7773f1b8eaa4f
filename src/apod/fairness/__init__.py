"""What fairness means in numbers: counts by group, label and decision, and every rate and metric made from them."""
