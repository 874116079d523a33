import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** Matches texts by RE2/J as Kafka does. Arguments: a pattern and its texts, in base64, separated by commas. */
public class Patterns {
    public static void main(String[] arguments) {
        for (String argument : arguments) {
            String[] words = argument.split(",", -1);
            StringBuilder found = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(decoded(words[0]));
                for (int index = 1; index < words.length; index++) {
                    found.append(pattern.matcher(decoded(words[index])).matches() ? '+' : '-');
                }
            } catch (PatternSyntaxException error) {
                found.append("invalid");
            }
            System.out.println(found);
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
