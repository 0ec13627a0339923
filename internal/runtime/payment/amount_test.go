package payment

import "testing"

func TestAmountsAreExact(t *testing.T) {
	for text, want := range map[string]Amount{
		"0": 0, "1": 1_000_000, "0.05": 50_000, "0.000001": 1, "999999999.999999": 999_999_999_999_999, "1.50": 1_500_000,
	} {
		got, err := ParseAmount(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		if again, err := ParseAmount(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{
		"", ".5", "5.", "-1", "+1", "1e3", "0x1", "1,5", "0.0000001", "1234567890", " 1", "1\n", "NaN",
	} {
		if got, err := ParseAmount(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func FuzzParseAmount(f *testing.F) {
	for _, text := range []string{"0.05", "1", "999999999.999999", "00.10"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := ParseAmount(text)
		if err != nil {
			return
		}
		if again, err := ParseAmount(amount.String()); err != nil || again != amount || amount < 0 {
			t.Errorf("%q is %d, written as %s", text, amount, amount)
		}
	})
}
