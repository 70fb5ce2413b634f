import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Predicate;

/** Calls the operation of a step whose one argument is a predicate or a key selector, by its name. */
final class OneFunction {
    private OneFunction() {
    }

    /** Returns what the method of an interface gives; options that are null are left out. */
    static Object call(Class<?> of, Object target, JsonNode step, Object... options) {
        String name = camelCase(step.get("op").asText());
        Object[] given = Stream.of(options).filter(Objects::nonNull).toArray();
        for (Method method : of.getMethods()) {
            Class<?>[] takes = method.getParameterTypes();
            if (method.getName().equals(name) && fits(takes, given)) {
                Object[] arguments = new Object[takes.length];
                arguments[0] = function(takes[0], Options.text(step, "fn"));
                System.arraycopy(given, 0, arguments, 1, given.length);
                return result(method, target, arguments);
            }
        }
        throw new IllegalArgumentException(of.getSimpleName() + " has no " + name + " of one function");
    }

    private static boolean fits(Class<?>[] takes, Object[] given) {
        if (takes.length != given.length + 1 || (takes[0] != Predicate.class && takes[0] != KeyValueMapper.class)) {
            return false;
        }
        for (int i = 0; i < given.length; i++) {
            if (!takes[i + 1].isInstance(given[i])) {
                return false;
            }
        }
        return true;
    }

    private static Object function(Class<?> kind, String name) {
        return kind == Predicate.class ? Functions.predicate(name) : Functions.keySelector(name);
    }

    private static Object result(Method method, Object target, Object[] arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException) {
                throw (RuntimeException) error.getCause();
            }
            throw new IllegalStateException(error.getCause());
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String camelCase(String name) {
        StringBuilder made = new StringBuilder();
        for (String part : name.split("_")) {
            made.append(made.length() == 0 ? part : Character.toUpperCase(part.charAt(0)) + part.substring(1));
        }
        return made.toString();
    }
}
