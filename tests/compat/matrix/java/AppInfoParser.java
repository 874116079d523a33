package org.apache.kafka.common.utils;

/** The class that connect-file asks for its version: there is none of 4.4, and 4.4 has moved the class elsewhere. */
public final class AppInfoParser {
    private AppInfoParser() {
    }

    public static String getVersion() {
        return org.apache.kafka.common.utils.internals.AppInfoParser.getVersion();
    }
}
